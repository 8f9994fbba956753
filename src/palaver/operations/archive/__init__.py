"""Operations on imported conversations, and imports."""
