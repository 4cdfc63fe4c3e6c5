package org.lendingdesk.desk;

/** Something that the rules of the library don't allow. */
public final class RefusedException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    RefusedException(String reason) {
        super(reason);
    }
}
