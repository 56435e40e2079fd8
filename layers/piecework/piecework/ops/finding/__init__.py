"""Search by an id: what has it, and how far it was looked for."""
