"""The bug factory: real projects with test suites, broken by realistic edits that tests catch."""
