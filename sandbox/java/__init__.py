"""Java programs inside a sandbox: the JDK, the build, the class path, the tests."""
