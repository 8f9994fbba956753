# docker build -t palaver . && docker run -p 127.0.0.1:39765:39765 -v palaver:/data palaver
# Without a registry, tools/try-image builds it on a Debian of its own: --build-arg BASE=localhost/palaver-base
ARG BASE=python:3.12-slim
FROM ${BASE} AS build
WORKDIR /build
COPY requirements ./requirements
RUN python -m venv /opt/palaver && /opt/palaver/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --require-hashes -r requirements/build.txt && \
    pip wheel --no-cache-dir --no-build-isolation --no-deps -w dist . && \
    /opt/palaver/bin/pip install --no-cache-dir --no-deps dist/*.whl

FROM ${BASE}
RUN useradd --system --uid 10001 --home-dir /data palaver && install -d -o palaver -g palaver -m 0700 /data
COPY --from=build /opt/palaver /opt/palaver
ENV PATH=/opt/palaver/bin:$PATH PALAVER_HOME=/data PALAVER_HOST=0.0.0.0 PYTHONUNBUFFERED=1
USER palaver
VOLUME /data
EXPOSE 39765
# Before the first start: docker run --rm -v palaver:/data palaver user add ann --scope read,write,admin
HEALTHCHECK --interval=10s --timeout=8s --start-period=20s CMD \
    ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:39765/readyz', timeout=7)"]
ENTRYPOINT ["palaver"]
CMD ["serve"]
