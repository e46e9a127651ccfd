"""Small files in exactly the layouts of the larger graphs, as their publishers describe them."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile

import numpy as np
import torch


def gzipped(text):
    return gzip.compress(text.encode())


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def wikidata5m():
    out = io.BytesIO()
    splits = {
        "train": "Q22686\tP39\tQ11696\nQ1\tP31\tQ2\n",
        "valid": "Q2\tP31\tQ1\n",
        "test": "Q1\tP39\tQ2\n",
    }
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for split, text in splits.items():
            info = tarfile.TarInfo(f"wikidata5m_transductive_{split}.txt")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def hetionet():
    return gzipped(
        "source\tmetaedge\ttarget\n"
        "Gene::9021\tGpBP\tBiological Process::GO:0071357\n"
        "Anatomy::UBERON:0002081\tAeG\tGene::8519\n"
        "Gene::2063\tGr>G\tGene::7846\n"
    )


def openbiolink():
    tables = {
        "train": "GO:0006915\tIS_A\tGO:0012501\t0\t1\tGO\n"
        "NCBIGENE:1\tGENE_GO\tGO:0006915\t7\t1\tx\n",
        "val": "NCBIGENE:1\tGENE_GO\tGO:0012501\t7\t1\tx\nNCBIGENE:1\tIS_A\tGO:0012501\t7\t0\tx\n",
        "test": "GO:0012501\tIS_A\tGO:0006915\t0\t1\tGO\n",
    }
    members = {f"HQ_DIR/train_test_data/{name}_sample.csv": text for name, text in tables.items()}
    members |= {f"HQ_DIR/train_test_data/negative_{name}_sample.csv": "x" for name in tables}
    nodes = "GO:0006915\tGO\nGO:0012501\tGO\nNCBIGENE:1\tGENE\n"
    return zipped(members | {"HQ_DIR/graph_files/nodes.csv": nodes})


def primekg():
    return (
        b"relation,display_relation,x_index,x_id,x_type,x_name,x_source,"
        b"y_index,y_id,y_type,y_name,y_source\n"
        b"protein_protein,ppi,0,9796,gene/protein,PHYHIP,NCBI,8889,56992,gene/protein,KIF15,NCBI\n"
        b'indication,indication,14012,DB00001,drug,"Lepirudin, ""x""",DrugBank,'
        b"27158,13924_12592,disease,osteogenesis imperfecta,MONDO_grouped\n"
        b"protein_protein,ppi,8889,56992,gene/protein,KIF15,NCBI,0,9796,gene/protein,PHYHIP,NCBI\n"
    )


def saved(arrays, **how):
    """Return a dictionary as torch saves it."""
    out = io.BytesIO()
    torch.save(arrays, out, **how)
    return out.getvalue()


def wikikg2(**how):
    def split(heads, relations, tails, negatives=0):
        columns = {"head": heads, "relation": relations, "tail": tails}
        arrays = {name: np.array(column, np.int64) for name, column in columns.items()}
        if negatives:
            shape = (len(heads), negatives)
            arrays |= {f"{side}_neg": np.zeros(shape, np.int64) for side in ("head", "tail")}
        return saved(arrays, **how)

    return zipped(
        {
            "wikikg-v2/mapping/README.md": "about",
            "wikikg-v2/mapping/nodeidx2entityid.csv.gz": gzipped(
                "node idx,entity id\n0,Q5\n1,Q42\n2,Q8\n"
            ),
            "wikikg-v2/mapping/reltype2relid.csv.gz": gzipped("reltype,rel id\n0,P31\n1,P50\n"),
            "wikikg-v2/raw/edge.csv.gz": gzipped("1,0\n"),
            "wikikg-v2/split/time/train.pt": split([1, 2, 0], [0, 1, 1], [0, 1, 2]),
            "wikikg-v2/split/time/valid.pt": split([1], [1], [2], negatives=20_000),
            "wikikg-v2/split/time/test.pt": split([2], [0], [0], negatives=500),
        }
    )


def biokg(**how):
    def split(facts, negatives=0):
        head_types, heads, relations, tail_types, tails = zip(*facts, strict=True)
        arrays = {
            "head_type": list(head_types),
            "head": np.array(heads, np.int64),
            "relation": np.array(relations, np.int64),
            "tail_type": list(tail_types),
            "tail": np.array(tails, np.int64),
        }
        if negatives:
            arrays["head_neg"] = np.zeros((len(facts), negatives), np.int64)
        return saved(arrays, **how)

    names = {
        "disease": ["C0000737"],
        "drug": ["CID000000085", "CID000000119"],
        "function": ["GO:0000002"],
        "protein": ["10"],
        "sideeffect": ["C0000729"],
    }
    mapping = {
        f"biokg/mapping/{type_}_entidx2name.csv.gz": gzipped(
            "ent idx,ent name\n" + "".join(f"{i},{name}\n" for i, name in enumerate(found))
        )
        for type_, found in names.items()
    }
    relations = "rel idx,rel name\n0,drug-disease\n1,protein-function\n"
    return zipped(
        mapping
        | {
            "biokg/mapping/relidx2relname.csv.gz": gzipped(relations),
            "biokg/split/random/train.pt": split(
                [("drug", 0, 0, "disease", 0), ("protein", 0, 1, "function", 0)]
            ),
            "biokg/split/random/valid.pt": split([("drug", 1, 0, "disease", 0)], negatives=500),
            "biokg/split/random/test.pt": split([("drug", 1, 0, "sideeffect", 0)], negatives=500),
        }
    )
