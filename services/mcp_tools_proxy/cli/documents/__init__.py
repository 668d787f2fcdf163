"""The ``documents`` commands, a module for each verb or a few of them."""
