-- A checksum of the text, so that a text that was changed on disk is noticed. The background check adds it to the rows of
-- earlier versions.
ALTER TABLE passages ADD COLUMN checksum INTEGER;
