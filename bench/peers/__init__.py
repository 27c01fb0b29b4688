"""Other task queues, each as its own documentation advises, on the same machine and server."""
