"""What machine code proves about locks: which of them a function holds at a place in its code, without symbols."""
