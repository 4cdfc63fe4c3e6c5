"""A run as pages that a browser reads from the disk: tables, charts and every conversation."""
