"""Several calls in one request: plain ones, or those of a model's reply as its API sent them."""
