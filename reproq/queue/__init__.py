"""The queue, one thin call for each function of the schema `queues`; the caller owns connection and transaction."""
