"""Tables, figures and HTML. Never imports torch."""
