"""The bug factory: real projects with test suites, broken by realistic edits that tests catch.

`stepinto bench make` fetches each project (`sources`), runs its suite with coverage (`suite`),
selects edits in code that the tests reach (`candidates`), keeps those that some tests catch twice
for the same reason (`making`), and writes a folder for the `local` benchmark (`building`).
"""
