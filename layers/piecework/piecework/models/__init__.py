"""Language models: the port, the prompt, the reading of answers, and one adapter without AWS."""
