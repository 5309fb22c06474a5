"""One module for each revision, in order; what a released one does is never changed."""
