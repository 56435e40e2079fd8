"""The record of a hired contract, and the states it may have."""
