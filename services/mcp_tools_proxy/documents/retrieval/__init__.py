"""documents/retrieval"""
