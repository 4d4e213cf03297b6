"""SQL texts: tokens, spans, trees and edits."""
