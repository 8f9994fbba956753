"""Operations for those who run a server."""
