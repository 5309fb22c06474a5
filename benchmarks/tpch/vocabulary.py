"""The words of TPC-H's columns; queries look for some of them, so those must be here."""

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")

# (nation, position of its region)
NATIONS = (
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
)

SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN")
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")

BRANDS = tuple(f"Brand#{maker}{number}" for maker in range(1, 6) for number in range(1, 6))
CONTAINERS = tuple(
    f"{size} {kind}"
    for size in ("JUMBO", "LG", "MED", "SM", "WRAP")
    for kind in ("BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG")
)
TYPES = tuple(
    f"{grade} {finish} {metal}"
    for grade in ("ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD")
    for finish in ("ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED")
    for metal in ("BRASS", "COPPER", "NICKEL", "STEEL", "TIN")
)

COLOURS = (
    *(
        "almond",
        "amber",
        "aqua",
        "azure",
        "beige",
        "black",
        "blue",
        "bronze",
        "brown",
        "carmine",
        "cherry",
        "cobalt",
    ),
    *(
        "coral",
        "cream",
        "crimson",
        "cyan",
        "denim",
        "ebony",
        "emerald",
        "fern",
        "firebrick",
        "forest",
        "fuchsia",
    ),
    *(
        "garnet",
        "gold",
        "green",
        "grey",
        "hazel",
        "honey",
        "indigo",
        "iris",
        "ivory",
        "jade",
        "khaki",
        "lavender",
    ),
    *(
        "lemon",
        "lilac",
        "lime",
        "linen",
        "magenta",
        "maroon",
        "mauve",
        "mint",
        "navy",
        "ochre",
        "olive",
        "orange",
    ),
    *(
        "orchid",
        "peach",
        "pearl",
        "pink",
        "plum",
        "puff",
        "red",
        "rose",
        "ruby",
        "rust",
        "saffron",
        "salmon",
        "sand",
    ),
    *(
        "sienna",
        "silver",
        "sky",
        "slate",
        "snow",
        "tan",
        "teal",
        "thistle",
        "tomato",
        "turquoise",
        "violet",
        "white",
    ),
)

COMMENT_WORDS = (
    *(
        "about",
        "above",
        "accounts",
        "across",
        "after",
        "along",
        "among",
        "and",
        "asymptotes",
        "at",
        "beans",
        "bold",
    ),
    *(
        "boost",
        "brave",
        "busy",
        "carefully",
        "cajole",
        "close",
        "courts",
        "daring",
        "deposits",
        "detect",
        "dolphins",
    ),
    *(
        "doze",
        "even",
        "evenly",
        "excuses",
        "express",
        "fast",
        "final",
        "fluffily",
        "foxes",
        "furiously",
        "haggle",
    ),
    *(
        "ideas",
        "instead",
        "instructions",
        "ironic",
        "kindle",
        "nag",
        "near",
        "never",
        "packages",
        "patterns",
        "pending",
    ),
    *(
        "pinto",
        "platelets",
        "quick",
        "quickly",
        "quiet",
        "realms",
        "regular",
        "ruthless",
        "silent",
        "sleep",
        "slyly",
    ),
    *("solve", "theodolites", "thin", "unusual", "use", "wake", "warhorses", "waters", "wool"),
)
