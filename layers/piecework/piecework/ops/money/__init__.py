"""What operators decide about money: payments in doubt, and refunds that were paid."""
