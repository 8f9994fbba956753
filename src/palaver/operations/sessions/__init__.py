"""Operations on agents' sessions."""
