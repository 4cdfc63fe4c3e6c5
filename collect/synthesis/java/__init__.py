"""Java projects in the factory: built once by Maven or Gradle, then edited file by file."""
