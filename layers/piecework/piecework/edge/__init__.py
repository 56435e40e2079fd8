"""What API Gateway and queues hand in: proxy events, credentials, batches of messages."""
