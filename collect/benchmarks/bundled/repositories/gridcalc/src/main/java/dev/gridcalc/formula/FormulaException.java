package dev.gridcalc.formula;

/** A formula has no value; the message is what its cell displays. */
public final class FormulaException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    public FormulaException(String sign) {
        super(sign);
    }
}
