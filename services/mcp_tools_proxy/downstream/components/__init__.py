"""downstream/components"""
