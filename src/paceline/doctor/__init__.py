"""What is installed, what is missing, whether results can be kept, and how far numbers from here can be trusted."""
