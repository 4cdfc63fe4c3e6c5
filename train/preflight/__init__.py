"""What is checked of rows, tokenizer, templates and weights before anything is trained."""
