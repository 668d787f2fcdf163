"""downstream/discovery"""
