"""gateway/check"""
