"""Domain types: frozen values, errors, and protocols that other packages implement.

Only the standard library, no I/O. All packages can import from here; modules here import no other
package.
"""
