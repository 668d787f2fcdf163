"""aiokits"""
