"""The bug factory: real projects with test suites, broken by realistic edits that tests catch.

`stepinto bench make` fetches each project, runs its suite with coverage (`workbench`), edits what
the tests reach (`candidates`), keeps what some tests catch, twice and for the same reason, and
writes a folder that the `local` benchmark reads (`making`).
"""
