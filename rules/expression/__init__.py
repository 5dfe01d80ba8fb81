"""The language of `when:` and `let:`: small, bounded, statically checked, three-valued."""
