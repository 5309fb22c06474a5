"""A good and a bad end in, the culprit between them out, with how sure that is."""
