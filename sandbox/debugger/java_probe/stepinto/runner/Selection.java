package stepinto.runner;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;

/** One class of tests, or one of its methods. */
final class Selection {
    final Class<?> type;
    /** The method's name, or null for all of the class. */
    final String method;
    /** What the brackets behind the method hold, of one that runs several times; null for all. */
    final String invocation;

    private Selection(Class<?> type, String method, String invocation) {
        this.type = type;
        this.method = method;
        this.invocation = invocation;
    }

    static Selection of(Class<?> type) {
        return new Selection(type, null, null);
    }

    static Selection of(String name) throws NoSuchTestException {
        int hash = name.indexOf('#');
        String className = hash < 0 ? name : name.substring(0, hash);
        String method = hash < 0 ? null : name.substring(hash + 1);
        String invocation = null;
        int bracket = method == null ? -1 : method.indexOf('[');
        if (bracket > 0 && method.endsWith("]")) {
            invocation = method.substring(bracket + 1, method.length() - 1);
            method = method.substring(0, bracket);
        }
        try {
            // Not initialised here: the framework does that, within the test's own report.
            ClassLoader loader = TestRunner.class.getClassLoader();
            Class<?> type = Class.forName(className, false, loader);
            Selection selection = new Selection(type, method, invocation);
            if (method != null && selection.methods().isEmpty()) {
                throw new NoSuchTestException(className + " has no method " + method);
            }
            return selection;
        } catch (ClassNotFoundException error) {
            throw new NoSuchTestException("there is no class " + className);
        }
    }

    /** The invocation's number, counted from {@code first}. Raises NoSuchTestException. */
    int number(int first) throws NoSuchTestException {
        try {
            int number = Integer.parseInt(invocation);
            if (number >= first) {
                return number;
            }
        } catch (NumberFormatException noNumber) {
            // As below.
        }
        throw new NoSuchTestException("an invocation of " + method
                + " is named by its number, from " + first + " on: " + method + "[" + first + "]");
    }

    /** The methods of that name, inherited ones included: parameterised tests take parameters. */
    List<Method> methods() {
        List<Method> found = new ArrayList<Method>();
        for (Method candidate : allMethods(type)) {
            if (candidate.getName().equals(method) && !candidate.isSynthetic()) {
                found.add(candidate);
            }
        }
        return found;
    }

    static List<Method> allMethods(Class<?> type) {
        List<Method> methods = new ArrayList<Method>();
        for (Class<?> each = type; each != null && each != Object.class;
                each = each.getSuperclass()) {
            for (Method method : each.getDeclaredMethods()) {
                methods.add(method);
            }
            for (Class<?> parent : each.getInterfaces()) {
                methods.addAll(allMethods(parent));
            }
        }
        return methods;
    }

    /** A name that no test has. */
    static final class NoSuchTestException extends Exception {
        private static final long serialVersionUID = 1L;

        NoSuchTestException(String message) {
            super(message);
        }
    }
}
