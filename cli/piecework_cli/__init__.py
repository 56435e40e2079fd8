"""The `piecework` command: contracts, tasks, payments and the ledger of a worker, local or deployed."""
