"""The pages of executions, over a kernel door with agents and runners of the tests'."""
