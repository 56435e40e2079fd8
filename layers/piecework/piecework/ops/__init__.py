"""The operator's door, `/ops`: looks over what the other doors have stored, and what an operator may do about it."""
