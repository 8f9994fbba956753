-- The texts that may show an uploaded image. A server looks for the files of these images after its start, and without
-- these indexes it reads all texts.
CREATE INDEX passages_with_images ON passages (id) WHERE text LIKE '%/uploads/%' OR data LIKE '%/uploads/%';
CREATE INDEX edits_with_images ON edits (passage_id) WHERE old_content LIKE '%/uploads/%';
CREATE INDEX bodies_with_images ON bodies (document_id) WHERE text LIKE '%/uploads/%';
