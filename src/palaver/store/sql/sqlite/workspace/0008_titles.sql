-- What has just this title, whatever its case. Long titles are told apart by how they begin.
CREATE INDEX documents_title ON documents (lower(substr(title, 1, 200)));
