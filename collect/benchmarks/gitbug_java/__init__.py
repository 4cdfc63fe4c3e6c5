"""GitBug-Java: bugs of Java projects, with what every test did before and after their fixes."""
