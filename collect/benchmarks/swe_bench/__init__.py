"""SWE-bench and SWE-bench-Live: issues of real repositories, each in an image of its own."""
