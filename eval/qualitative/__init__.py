"""Debug2Fix's qualitative analysis (its section 6.3): what is asked, and how it goes wrong."""
