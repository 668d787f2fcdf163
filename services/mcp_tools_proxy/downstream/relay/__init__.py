"""downstream/relay"""
