"""The systems that InspectCoder is compared with: self-debugging, LDB, AutoSD, SWE-agent."""
