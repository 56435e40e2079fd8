"""The runtime door: WattSwarm messages, policies, hashes and the execute and verify flows."""
