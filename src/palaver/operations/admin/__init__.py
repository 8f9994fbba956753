"""Operations for administrators of a server."""
