"""A task from its payment to its answer: attempts, work, and how it goes on."""
