"""What users register and what their code may do: executors, runs, policies, event hooks."""
