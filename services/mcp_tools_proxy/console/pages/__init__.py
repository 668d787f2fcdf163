"""The console's pages, one module per part; each calls the API and renders the result."""
